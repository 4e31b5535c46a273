-- Returns the beginnings of the messages of a list, and of those that takers have of it.
-- KEYS: list, takers   ARGV: bytes of a beginning, messages of the list at most
local list, takers, bytes, most = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
for first = 0, math.min(redis.call('LLEN', list), most) - 1, 100 do
  for _, raw in ipairs(redis.call('LRANGE', list, first, math.min(first + 99, most - 1))) do
    found[#found + 1] = string.sub(raw, 1, bytes)
  end
end
for _, name in ipairs(redis.call('SMEMBERS', takers)) do
  local taken = redis.pcall('HGETALL', list .. ':taken:' .. name)
  for i = 1, taken.err and 0 or #taken, 2 do
    if taken[i] ~= 'last' then found[#found + 1] = string.sub(taken[i + 1], 1, bytes) end
  end
end
return found
