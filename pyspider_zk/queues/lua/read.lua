-- KEYS: dead letters, ready, stream...
-- ARGV: messages per stream, bytes of all, bytes of one, bytes that are kept, letters, kind,
--       (tag to read after, slot) per stream
-- A message that is larger than it may be is cut and rejected here: it is not even sent. Small ones
-- are fetched by several, after a large one the next alone, so that few large ones are in memory.
-- It returns a flat list of tags and bodies per stream: a list per message takes as long again.
local room, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local found, rejected = {}, 0
local function size(fields)
  local sum = 0
  for i = 1, #fields do sum = sum + #fields[i] end
  return sum
end
local function body(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'body' then return fields[i + 1] end
  end
  return ''
end
redis.call('XLEN', KEYS[1])
redis.call('SCARD', KEYS[2])
for i = 3, #KEYS do
  local tag, slot = ARGV[1 + 2 * i], ARGV[2 + 2 * i]
  local left, entries, count = tonumber(ARGV[1]), {}, 1
  while left > 0 and room > 0 and tag ~= '18446744073709551615-18446744073709551615' do
    count = math.min(count, left)
    local some = redis.call('XRANGE', KEYS[i], '(' .. tag, '+', 'COUNT', count)
    local is_last = #some < count
    count = math.min(2 * count, 64)
    for _, entry in ipairs(some) do
      if room <= 0 then break end
      tag = entry[1]
      local bytes = size(entry[2])
      if bytes > 4096 then count = 1 end
      if bytes > most + 100 then
        local why = 'has ' .. bytes - 4 .. ' bytes, the limit is ' .. most
        why = why .. '; this is the beginning'
        local done = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*', 'reason', why,
          'kind', ARGV[6], 'slot', slot, 'body', string.sub(entry[2][#entry[2]], 1, ARGV[4]))
        if not done.err then
          redis.call('XDEL', KEYS[i], tag)
          if redis.call('XLEN', KEYS[i]) == 0 then redis.call('SREM', KEYS[2], slot) end
        end
        rejected = rejected + 1
      else
        entries[#entries + 1] = tag
        entries[#entries + 1] = body(entry[2])
        room, left = room - bytes, left - 1
      end
    end
    if is_last then break end
  end
  found[i - 2] = entries
end
return {rejected, found}
