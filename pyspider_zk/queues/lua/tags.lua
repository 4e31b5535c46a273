-- KEYS: stream   ARGV: first tag, count
local found = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  local bytes = 0
  for _, part in ipairs(entry[2]) do bytes = bytes + #part end
  found[#found + 1] = {entry[1], bytes}
end
return found
