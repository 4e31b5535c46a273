-- KEYS: dead letters   ARGV: bytes of all
-- A tenth is dropped at a time: Redis only estimates the bytes.
local dropped = 0
while (redis.call('MEMORY', 'USAGE', KEYS[1]) or 0) > tonumber(ARGV[1]) do
  local length = redis.call('XLEN', KEYS[1])
  if length < 2 then break end
  dropped = dropped + redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', math.floor(length * 0.9))
end
return dropped
