-- KEYS: number of the caller's latest addition, hash...
-- ARGV: number of this one, seconds to keep it all, the sums of each hash by field, in msgpack
-- A field that is no number begins anew.
for i = 2, #KEYS do redis.call('HLEN', KEYS[i]) end
if redis.call('GET', KEYS[1]) == ARGV[1] then return end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
for i = 2, #KEYS do
  for field, sum in pairs(cmsgpack.unpack(ARGV[i + 1])) do
    local added = redis.pcall('HINCRBY', KEYS[i], field, sum)
    if type(added) == 'table' then redis.call('HSET', KEYS[i], field, sum) end
  end
  redis.call('EXPIRE', KEYS[i], ARGV[2])
end
