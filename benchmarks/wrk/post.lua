-- Posts one prepared body again and again, with the keys by turns: one key may have 32 requests in flight.
-- Arguments after `--`: a file with the body, a file with one key a line, the Content-Type.
-- Prints one line of JSON at its end.

local requests, turn = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local body = file:read("*a")
  file:close()
  for key in io.lines(args[2]) do
    local headers = { ["Content-Type"] = args[3], ["Authorization"] = "Bearer " .. key }
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local errors = summary.errors
  print(string.format(
    '{"answered": %d, "refused": %d, "broken": %d, "microseconds": %d, "p99": %d}',
    summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration, latency:percentile(99)
  ))
end
