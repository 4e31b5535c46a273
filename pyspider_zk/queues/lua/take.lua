-- Moves messages from a list to the hash of their taker, where they stay until they are done. A call
-- that comes again, as its reply was lost, has the number that it had, and gets what it got; one that
-- arrives after others takes nothing. A message that takers died with is taken alone, so that no other
-- is blamed if it was the reason.
-- KEYS: list, taken messages by number, takers, deaths by message   ARGV: taker, number of the next
-- message, how many at most, bytes after which there shall be no more, bytes of one message at most,
-- seconds to remember a taker that has none, the numbers that are done (msgpack)
local list, taken, takers, deaths = unpack(KEYS)
redis.call('LLEN', list)
redis.call('SCARD', takers)
local mortal = redis.call('HLEN', deaths) > 0
local done = cmsgpack.unpack(ARGV[7])
if #done > 0 then
  for _, raw in ipairs(mortal and redis.call('HMGET', taken, unpack(done)) or {}) do
    if raw then redis.call('HDEL', deaths, redis.sha1hex(raw)) end
  end
  redis.call('HDEL', taken, unpack(done))
end
local first, last = tonumber(ARGV[2]), tonumber(redis.call('HGET', taken, 'last') or 0) or 0
local numbers, raws, counts, dropped, bytes = {}, {}, {}, {}, 0
local function deaths_with(raw)
  return mortal and raw and tonumber(redis.call('HGET', deaths, redis.sha1hex(raw)) or 0) or 0
end
local function deliver(number, raw)
  numbers[#numbers + 1], raws[#raws + 1], counts[#counts + 1] = number, raw, deaths_with(raw)
end
local function is_enough()
  if #numbers == tonumber(ARGV[3]) or bytes >= tonumber(ARGV[4]) then return true end
  return mortal and #numbers > 0 and (counts[#counts] > 0 or deaths_with(redis.call('LINDEX', list, 0)) > 0)
end
if first <= last then
  local left = {}
  for _, field in ipairs(redis.call('HKEYS', taken)) do
    local number = tonumber(field)
    if number and number >= first then left[#left + 1] = number end
  end
  table.sort(left)
  for _, number in ipairs(left) do deliver(number, redis.call('HGET', taken, number)) end
else
  while not is_enough() do
    local raw = redis.call('LPOP', list)
    if not raw then break end
    if #raw > tonumber(ARGV[5]) then
      dropped[#dropped + 1] = #raw
    else
      last, bytes = first + #numbers, bytes + #raw
      redis.call('HSET', taken, last, raw)
      deliver(last, raw)
    end
  end
  if #numbers > 0 then
    redis.call('HSET', taken, 'last', last)
    redis.call('PERSIST', taken)
    redis.call('SADD', takers, ARGV[1])
  end
end
if #done > 0 and redis.call('HLEN', taken) == 1 then redis.call('EXPIRE', taken, ARGV[6]) end
return {last, numbers, raws, counts, dropped}
