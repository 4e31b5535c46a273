-- Returns the beginnings of the messages of a list, and of those that takers have of it.
-- KEYS: list, takers   ARGV: bytes of a beginning, bytes of all beginnings after which no more of the
-- list are read, what the names of takers' keys begin with
local list, takers, bytes, room = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
local function note(raw)
  found[#found + 1] = string.sub(raw, 1, bytes)
  room = room - #found[#found]
end
for first = 0, redis.call('LLEN', list) - 1, 100 do
  if room <= 0 then break end
  for _, raw in ipairs(redis.call('LRANGE', list, first, first + 99)) do note(raw) end
end
for _, name in ipairs(redis.call('SMEMBERS', takers)) do
  local taken = redis.pcall('HGETALL', ARGV[3] .. name)
  for i = 1, taken.err and 0 or #taken, 2 do
    if taken[i] ~= 'last' then note(taken[i + 1]) end
  end
end
return found
