-- Puts what a taker has before all others of the list, in its order, and forgets the taker.
-- KEYS: list, taken messages by number, takers, deaths by message, wake-ups   ARGV: taker, whether it
-- died (1, 0), seconds to remember deaths, wake-ups that are kept
local list, taken, takers, deaths, wake_ups = unpack(KEYS)
redis.call('SCARD', takers)
redis.call('HLEN', deaths)
redis.call('XLEN', wake_ups)
local was_empty = redis.call('LLEN', list) == 0
local numbers = {}
for _, field in ipairs(redis.call('HKEYS', taken)) do
  if field ~= 'last' then numbers[#numbers + 1] = tonumber(field) end
end
table.sort(numbers, function(one, other) return one > other end)
for _, number in ipairs(numbers) do
  local raw = redis.call('HGET', taken, number)
  redis.call('LPUSH', list, raw)
  if ARGV[2] == '1' then redis.call('HINCRBY', deaths, redis.sha1hex(raw), 1) end
end
if ARGV[2] == '1' and #numbers > 0 then redis.call('EXPIRE', deaths, ARGV[3]) end
redis.call('DEL', taken)
redis.call('SREM', takers, ARGV[1])
if was_empty and #numbers > 0 then
  redis.call('XADD', wake_ups, 'MAXLEN', '~', ARGV[4], '*', 'pushed', 1)
end
return #numbers
