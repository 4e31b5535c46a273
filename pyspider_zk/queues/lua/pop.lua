-- Each pop has the next number. An older one than the last has nobody left who waits for it, and
-- takes nothing. One that finds nothing is remembered if its call came before and may arrive yet;
-- otherwise each look into an empty list would be written to Redis's disk.
-- KEYS: list, caller   ARGV: number of the call, seconds to remember the caller, bytes of a message,
-- whether the call comes again (1, 0)
local last = tonumber(redis.call('HGET', KEYS[2], 'popped') or 0) or 0
local call = tonumber(ARGV[1])
if last == call then return redis.call('HGET', KEYS[2], 'raw') end
if last > call then return false end
local raw = redis.call('LPOP', KEYS[1])
local is_too_large = raw and #raw > tonumber(ARGV[3])
if raw or ARGV[4] == '1' then
  redis.call('HSET', KEYS[2], 'popped', ARGV[1])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
if raw and not is_too_large then
  redis.call('HSET', KEYS[2], 'raw', raw)
else
  redis.call('HDEL', KEYS[2], 'raw')
end
return is_too_large and #raw or raw
