// Numbers and times, formatted for people.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

export const UNKNOWN = "–";

const known = (value) => value !== null && value !== undefined;

export const count = (value) => (known(value) ? whole.format(value) : UNKNOWN);

export function rate(value) {
  if (!known(value)) return UNKNOWN;
  return value !== 0 && value < 10 ? value.toFixed(value < 0.1 ? 2 : 1) : whole.format(Math.round(value));
}

export const percent = (value) => (known(value) ? `${Math.round(value * 100)} %` : UNKNOWN);

export const inSeconds = (value) => (known(value) ? `${value.toFixed(2)} s` : UNKNOWN);

export const megabytes = (bytes) => (bytes ? `${Math.round(bytes / 2 ** 20)} MB` : UNKNOWN);

/** Anybody may have written a time; of one that no calendar has, a date would be an exception. */
function shown(time, words) {
  if (!known(time)) return UNKNOWN;
  return Number.isNaN(new Date(time * 1000).getTime()) ? "unreadable" : words();
}

/** A length of time, in its two largest units. */
export function age(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const left = Math.max(0, seconds);
  if (left < 60) return `${Math.floor(left)} s`;
  if (left < 3600) return `${Math.floor(left / 60)} min`;
  if (left < 86400) return `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
  return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
}

// `now` is the time in the response: the browser's clock may be wrong.

export const since = (time, now) => shown(time, () => age(now - time));

export function until(time, now) {
  return shown(time, () => (time <= now ? "now" : `in ${age(time - now)}`));
}

export const when = (time) => shown(time, () => clock.format(new Date(time * 1000)));

export const plural = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
