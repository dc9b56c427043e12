// A provider for tests: the certified library, with people, clients and keys from one file of settings.
//
//   node provider.mjs SETTINGS
//
// SETTINGS is JSON: `issuer`, `port`, `people` (a file, login -> claims, read anew at each sign-in) and `clients`. Every
// start makes new keys, for RS256 and ES256: a restart is a rotation. Whoever is in the file of people signs in with any
// password, and consents to everything. It says READY and its issuer when it listens, on 127.0.0.1 alone.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { Provider } from 'oidc-provider';

const BODY_LIMIT_BYTES = 65_536;
const OF_PROFILE = [
  'name', 'preferred_username', 'groups', 'group_ids', 'roles',
  'service_projects', 'service_default_role', 'service_org_admin',
];

const settings = JSON.parse(readFileSync(process.argv[2]));
const people = () => new Map(Object.entries(JSON.parse(readFileSync(settings.people))));

const KINDS = { RS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }] };

function key(algorithm) {
  const { privateKey } = generateKeyPairSync(...KINDS[algorithm]);
  return { ...privateKey.export({ format: 'jwk' }), alg: algorithm, use: 'sig', kid: randomUUID() };
}

async function granted(ctx) {
  const { client, session, provider } = ctx.oidc;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid profile email');
  await grant.save();
  return grant;
}

const page = (title, body) => `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title><link rel="icon" href="data:,"></head>
<body><main><h1>${title}</h1>${body}</main></body></html>`;

const provider = new Provider(settings.issuer, {
  clients: settings.clients,
  jwks: { keys: Object.keys(KINDS).map(key) },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: OF_PROFILE },
  conformIdTokenClaims: false, // else the claims of scopes are at the userinfo endpoint only
  pkce: { required: () => true },
  cookies: { keys: [randomUUID()] },
  features: {
    devInteractions: { enabled: false },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource(ctx, form) {
        const yes = '<button type="submit" form="op.logoutForm" name="logout" value="yes" autofocus>Yes</button>';
        ctx.body = page('Sign out of the provider?', `${form}${yes}`);
      },
    },
  },
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  loadExistingGrant: granted,
  findAccount(ctx, sub) {
    const claims = people().get(sub);
    return claims && { accountId: sub, claims: () => ({ sub, ...claims }) };
  },
});

async function form(req) {
  const parts = [];
  let length = 0;
  for await (const part of req) {
    length += part.length;
    if (length > BODY_LIMIT_BYTES) throw new Error('the form is too long');
    parts.push(part);
  }
  return new URLSearchParams(Buffer.concat(parts).toString());
}

const SIGN_IN = `<form method="post"><p><label>Login <input name="login" autofocus></label></p>
<p><label>Password <input name="password" type="password"></label></p>
<p><button name="go" value="yes">Sign in</button> <button name="go" value="no">Cancel</button></p></form>`;

async function result(req) {
  const sent = await form(req);
  if (sent.get('go') === 'no') return { error: 'access_denied', error_description: 'the person said no' };
  return people().has(sent.get('login')) ? { login: { accountId: sent.get('login') } } : undefined;
}

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/interaction/')) return next();
  await provider.interactionDetails(ctx.req, ctx.res); // of this browser, or it raises
  const found = ctx.method === 'POST' ? await result(ctx.req) : undefined;
  if (found === undefined) {
    ctx.body = page('The provider', SIGN_IN);
    return undefined;
  }
  ctx.respond = false;
  return provider.interactionFinished(ctx.req, ctx.res, found);
});

provider.on('server_error', (ctx, error) => console.error(error));
const server = provider.listen(settings.port, '127.0.0.1', () => console.log(`READY ${settings.issuer}`));
process.on('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
