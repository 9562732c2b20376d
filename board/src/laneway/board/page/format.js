// Numbers and times as people read them.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** "3 d 4 h", "12 m", "40 s": the two largest units, the second one only from an hour on. */
export function duration(milliseconds) {
  let seconds = Math.max(0, Math.round(milliseconds / 1000));
  const index = Math.min(UNITS.findIndex(([, size]) => seconds >= size) >>> 0, UNITS.length - 1);
  const [unit, size] = UNITS[index];
  const first = Math.floor(seconds / size);
  seconds -= first * size;
  const rest = index < 2 ? Math.floor(seconds / UNITS[index + 1][1]) : 0;
  return `${first} ${unit}${rest ? ` ${rest} ${UNITS[index + 1][0]}` : ""}`;
}

/** Milliseconds since a time of the API; null where there is none. */
export function since(time) {
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? null : Date.now() - parsed;
}

export function age(time) {
  const passed = since(time);
  return passed === null ? "" : duration(passed);
}

/** "in 5 m", or "soon" if the time has passed. */
export function until(time) {
  const passed = since(time);
  if (passed === null) {
    return "";
  }
  return passed < 0 ? `in ${duration(-passed)}` : "soon";
}

export function clock(time) {
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? "" : new Date(parsed).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
}

export function gib(bytes) {
  const value = bytes / 2 ** 30;
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1);
}

/** GPU-milliseconds as GPU-hours. */
export function gpuHours(milliseconds) {
  const hours = milliseconds / 3.6e6;
  return hours >= 100 ? hours.toFixed(0) : hours >= 0.1 || hours === 0 ? hours.toFixed(1) : hours.toFixed(3);
}

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}
