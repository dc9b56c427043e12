// Applies, reads, pages and deletes with the generated TypeScript client. `tests/providers/test_clients.py` compiles and
// runs it, and compares what it prints.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [, , baseUrl, key] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const kind = "Fleet";

async function apply() {
  const resources = ["one", "three", "two"].map((name) => ({
    apiVersion: "service/v1",
    kind: "Fleet" as const,
    metadata: { name, displayName: null, labels: { team: "edge" } },
    spec: { selector: { matchLabels: { site: name } } },
  }));
  const { data, error } = await client.POST("/v1/apply", { body: { resources } });
  if (error) throw new Error(error.errors.join());
  return data.updates.map((update) => update.status);
}

async function read(name: string) {
  const { data } = await client.GET("/v1/resources/{kind}/{name}", { params: { path: { kind, name } } });
  return data && [data.resource.metadata.name, data.resource.metadata.version];
}

async function page() {
  const pages: string[][] = [];
  for (let after: string | undefined; ; ) {
    const query = { limit: 2, ...(after === undefined ? {} : { after }) };
    const { data } = await client.GET("/v1/resources/{kind}", { params: { path: { kind }, query } });
    const names = (data?.resources ?? []).map((resource) => resource.metadata.name);
    pages.push(names);
    if (names.length < 2) return pages;
    after = names.at(-1);
  }
}

async function remove() {
  const { data } = await client.POST("/v1/delete", { body: [{ kind, metadata: { name: "one" } }] });
  const { response } = await client.DELETE("/v1/resources/{kind}/{name}", { params: { path: { kind, name: "two" } } });
  return [data?.updates.map((update) => update.status), response.status];
}

async function refuse() {
  const { error } = await client.GET("/v1/resources/{kind}/{name}", { params: { path: { kind, name: "one" } } });
  return error?.codes;
}

const told = {
  apply: await apply(),
  read: await read("one"),
  page: await page(),
  remove: await remove(),
  refuse: await refuse(),
};
console.log(JSON.stringify(told));
