-- Others may come between a push and its repetition, so each is remembered until it was answered.
-- Pushes messages until the list is as long as it may be; those that it has already count as pushed.
-- KEYS: list, caller, wake-ups   ARGV: seconds to remember the caller, wake-ups that are kept, the
-- longest that the list may be (0: no limit), the messages' numbers and those to forget, each as a
-- list in msgpack, for an argument costs the caller more than a number; then the messages
redis.call('HLEN', KEYS[2])
redis.call('XLEN', KEYS[3])
local length = redis.call('LLEN', KEYS[1])
local was_empty, limit = length == 0, tonumber(ARGV[3])
local numbers, spare = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5])
local fresh, remembered, pushed = {}, {}, 0
local known = redis.call('HMGET', KEYS[2], unpack(numbers))
for i, number in ipairs(numbers) do
  if not known[i] then
    if limit > 0 and length + #fresh >= limit then break end
    fresh[#fresh + 1] = ARGV[5 + i]
    remembered[2 * #fresh - 1], remembered[2 * #fresh] = number, ''
  end
  pushed = pushed + 1
end
if #fresh > 0 then
  length = redis.call('RPUSH', KEYS[1], unpack(fresh))
  redis.call('HSET', KEYS[2], unpack(remembered))
end
if #spare > 0 then redis.call('HDEL', KEYS[2], unpack(spare)) end
redis.call('EXPIRE', KEYS[2], ARGV[1])
if was_empty and length > 0 then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[2], '*', 'pushed', 1)
end
return {pushed, length}
