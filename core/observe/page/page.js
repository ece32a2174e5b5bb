"use strict";
const $ = id => document.getElementById(id);
const make = (tag, kind, text) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
};
const number = value => Number(value || 0).toLocaleString("en");
const span = seconds => {
  if (seconds < 0.95) return Math.round(seconds * 1000) + " ms";
  if (seconds < 120) return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
};
const size = bytes => bytes < 1 << 20 ? (bytes / 1024).toFixed(0) + " KiB" : (bytes / (1 << 20)).toFixed(1) + " MiB";
const percent = share => Math.round(share * 100) + " %";
const place = fact => fact.topic + ":" + fact.partition;
const until = (then, now) => then <= now ? "now" : "in " + span((then - now) / 1000);

const table = (title, note, columns, rows, empty) => {
  const box = make("div", "table");
  const head = make("h2", "", title);
  head.append(make("small", "", note));
  box.append(head);
  if (!rows.length) {
    box.append(make("p", "none", empty));
    return box;
  }
  const scroll = make("div", "scroll"), made = make("table"), top = make("tr");
  for (const [name, kind] of columns) {
    const cell = make("th", kind, name);
    cell.scope = "col";
    top.append(cell);
  }
  made.append(top);
  for (const row of rows) {
    const line = make("tr");
    row.forEach((cell, i) => {
      const [text, mark] = Array.isArray(cell) ? cell : [cell, ""];
      const made = make("td", [columns[i][1], mark].filter(Boolean).join(" "), text);
      if (columns[i][1] === "key") made.title = text;
      line.append(made);
    });
    made.append(line);
  }
  scroll.append(made);
  box.append(scroll);
  return box;
};

const tile = (label, value, mark) => {
  const made = make("div", "tile");
  made.append(make("b", mark, value), make("span", "", label));
  return made;
};

const tiles = s => {
  const c = s.consumer, p = s.pipeline, parts = c ? c.partitions : [];
  const lag = parts.reduce((sum, each) => sum + Math.max(0, each.lag), 0);
  const deferred = parts.reduce((sum, each) => sum + each.deferred, 0);
  const made = [];
  if (c) {
    made.push(tile("partitions", number(parts.length)), tile("lag", number(lag)),
      tile("running", number(s.chain.permits_used) + " / " + number(s.chain.permits)), tile("waiting", number(c.waiting)),
      tile("deferred keys", number(deferred), deferred ? "warn" : ""), tile("succeeded", number(c.counters.succeeded)),
      tile("retries", number(p.retries)), tile("discarded", number(p.discarded), p.discarded ? "bad" : ""),
      tile("dead letters", number(p.dead_letters), p.dead_letters ? "warn" : ""),
      tile("timers overdue", number(s.timers.overdue), s.timers.oldest > 5 ? "warn" : ""));
  }
  made.push(tile("sent", number(s.producer.sent)), tile("sends pending", number(s.producer.pending)),
    tile("requests pending", number(s.requests.pending)));
  return made;
};

const share = (hits, misses) => hits + misses ? percent(hits / (hits + misses)) : "–";
const caches = s => {
  const rows = [];
  if (s.keys) rows.push(["keys", number(s.keys.loaded), size(s.keys.bytes), share(s.keys.hits, s.keys.loads), number(s.keys.unwritten) + " marks unwritten"]);
  if (s.keys && s.keys.disk) {
    const d = s.keys.disk, full = d.bytes * 100 > d.limit * 95;
    rows.push(["disk: keys", number(d.entries), size(d.bytes) + " of " + size(d.limit), share(d.keys.hits, d.keys.misses),
      d.faults ? [number(d.faults) + " faults; see the log", "bad"] : full ? "full: the oldest go" : ""]);
    rows.push(["disk: rows", "", "", share(d.rows.hits, d.rows.misses), ""]);
  }
  if (s.state_cells) rows.push(["state cells", "–", "–", share(s.state_cells.hits, s.state_cells.misses), number(s.state_cells.cells) + " read from the store"]);
  if (s.records) rows.push(["old records", number(s.records.kept), "–", share(s.records.hits, s.records.reads), number(s.records.failures) + " reads failed"]);
  return rows;
};

const tables = s => {
  const made = [], now = s.now;
  if (!s.consumer) return made;
  made.push(table("Partitions", "", [["partition"], ["lag", "number"], ["position", "number"], ["in flight", "number"], ["oldest", "number"],
    ["waiting", "number"], ["deferred keys", "number"], ["state"]],
  s.consumer.partitions.slice().sort((a, b) => a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition).map(p => [place(p), p.lag < 0 ? "?" : number(p.lag),
    p.position < 0 ? "–" : number(p.position), number(p.running), p.running ? span(p.oldest) : "–", number(p.waiting), number(p.deferred),
    p.blocked ? [p.blocked + " keys stand still", "bad"] : p.leaving ? ["leaving", "warn"] : p.paused ? ["paused: enough waits", "warn"] : ["ok", "good"]]),
  "None: another member of the group has them all, or the group is forming."));
  const keyed = [["partition"], ["key", "key"], ["event"], ["offset", "number"], ["age", "number"], ["behind it", "number"]];
  const line = k => [place(k), k.key, k.blocked ? [k.kind + ", stands still", "bad"] : k.kind, k.offset < 0 ? "–" : String(k.offset), span(k.age), number(k.waiting)];
  made.push(table("Running", "oldest first, at most " + s.shown, keyed, (s.running_keys).map(line), "No handler runs."));
  made.push(table("Waiting keys", "age of the record", keyed, (s.waiting_keys).map(line), "Nothing waits for a slot."));
  made.push(table("Deferred keys", "next retry first", [["partition"], ["key", "key"], ["events", "number"], ["attempts", "number"], ["next try", "number"], ["reason", "text"]],
    (s.deferred_keys).map(d => [place(d), d.key, number(d.events), number(d.attempts), until(d.next, now), d.reason || "not known to this process"]),
    "No key is deferred."));
  made.push(table("Timers", number(s.timers.waiting) + " in memory; next first", [["partition"], ["key", "key"], ["due", "number"], ["at"]],
    (s.timers_due).map(d => [place(d), d.key, d.fired ? ["runs", "good"] : until(d.due, now), new Date(d.due).toISOString().replace(".000Z", "Z")]),
    "No timer is loaded."));
  made.push(table("Failures", "first deliveries of the last minutes", [["topic"], ["events", "number"], ["failed", "number"], ["rate", "number"], ["gate"]],
    (s.chain.gates || []).map(g => [g.topic, number(g.events), number(g.failures), percent(g.rate),
      g.open ? ["open: a failing event steps aside", "good"] : ["shut: nearly all fail, retried in place", "bad"]]), "Nothing was handled lately."));
  if (s.chain.monopolized) {
    made.push(table("Keys held back", s.chain.monopolized + " take nearly all the time", [["partition"], ["key", "key"], ["share", "number"]],
      s.chain.monopolies.map(m => [place(m), m.key, percent(m.share)]), ""));
  }
  made.push(table("Caches", "", [["of"], ["entries", "number"], ["memory", "number"], ["hits", "number"], ["and"]], caches(s), ""));
  return made;
};

const show = s => {
  const stuck = s.stalled, outages = s.outages;
  const [word, mark] = stuck.length ? ["stuck", "bad"] : outages.length ? ["blocked by an outage", "warn"] :
    s.state !== "running" ? [s.state, "warn"] : ["running", "good"];
  $("badge").textContent = word;
  $("badge").className = "badge " + mark;
  $("name").textContent = s.consumer ? s.consumer.group : "Prosody";
  document.title = word + " · " + $("name").textContent;
  $("about").textContent = s.client + (s.consumer ? s.consumer.joined ? " · in its group" : " · not in its group" : "");
  $("reasons").hidden = !(stuck.length + outages.length);
  $("reasons").className = stuck.length ? "bad" : "";
  $("reasons").replaceChildren(...stuck.map(text => make("p", "bad", text)), ...outages.map(text => make("p", "warn", text)));
  $("tiles").replaceChildren(...tiles(s));
  const kept = [...document.querySelectorAll(".scroll")].map(box => box.scrollLeft);
  $("tables").replaceChildren(...tables(s));
  document.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = kept[i] || 0; });
};

let last = 0;
const refresh = async () => {
  try {
    const answer = await fetch("/status", {cache: "no-store", signal: AbortSignal.timeout(5000)});
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
    last = Date.now();
    $("age").textContent = "live";
    $("age").className = "";
  } catch (problem) {
    $("age").textContent = (last ? "no answer for " + span((Date.now() - last) / 1000) : "no answer") + ": " + problem.message;
    $("age").className = "bad";
  }
  setTimeout(refresh, document.hidden ? 10000 : 2000);
};
refresh();
