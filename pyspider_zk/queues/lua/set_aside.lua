-- KEYS: the hash, key...   ARGV: number, most, type of each key
-- A stream whose last number is the highest there is takes no entry any more: its entries get new
-- numbers.
local moved = {}
local function is_used_up(key)
  local about = redis.call('XINFO', 'STREAM', key)
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then
      return about[i + 1] == '18446744073709551615-18446744073709551615'
    end
  end
end
for i = 2, #KEYS do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= ARGV[i + 1] then
    local name = 'unreadable:' .. KEYS[i] .. ':' .. ARGV[1]
    local why = KEYS[i] .. ' was a ' .. found .. ' where a ' .. ARGV[i + 1] .. ' belongs'
    redis.call('RENAME', KEYS[i], name)
    moved[#moved + 1] = name
    moved[#moved + 1] = why
  elseif found == 'stream' and is_used_up(KEYS[i]) then
    local entries = redis.call('XRANGE', KEYS[i], '-', '+')
    redis.call('DEL', KEYS[i])
    for _, entry in ipairs(entries) do redis.call('XADD', KEYS[i], '*', unpack(entry[2])) end
  end
end
local known = redis.pcall('HLEN', KEYS[1])
for i = 1, #moved, 2 do
  if type(known) == 'number' and known < tonumber(ARGV[2]) then
    redis.pcall('HSET', KEYS[1], moved[i], moved[i + 1])
  end
end
return moved
