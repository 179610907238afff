// headgate's pages work without this. It shows times in the viewer's zone, refreshes
// the parts of a page that are marked for it, and keeps addresses short.
"use strict";

(() => {
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const year = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
  const inUTC = Intl.DateTimeFormat().resolvedOptions().timeZone === "UTC";

  function local(root) {
    for (const t of root.querySelectorAll("time[data-show]")) {
      const at = new Date(t.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const date = at.getFullYear() === new Date().getFullYear() ? day : year;
      t.title = at.toISOString();
      t.textContent = t.dataset.show === "clock" ? clock.format(at) : date.format(at) + ", " + clock.format(at);
      const utc = document.createElement("span");
      utc.className = "utc";
      utc.textContent = inUTC ? " UTC" : " " + at.toISOString().slice(11, 16) + " UTC";
      t.append(utc);
      t.removeAttribute("data-show");
    }
    for (const t of root.querySelectorAll("[data-clock]")) {
      const at = new Date(t.dataset.clock);
      if (!Number.isNaN(at.getTime())) t.textContent = short.format(at);
      t.removeAttribute("data-clock");
    }
  }

  // said joins what is worth saying aloud when it changes.
  const said = () => [...document.querySelectorAll("[data-say]")].map((e) => e.textContent.trim()).join("; ");

  function put(fresh) {
    const before = said();
    for (const part of fresh.querySelectorAll("[data-refresh]")) {
      const here = part.id && document.getElementById(part.id);
      if (!here || here.contains(document.activeElement) && document.activeElement !== document.body && here.querySelector("form :focus")) continue;
      const focused = here.contains(document.activeElement) ? document.activeElement : null;
      const place = focused && [...here.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused);
      for (const d of here.querySelectorAll("details[open][id]")) part.querySelector("#" + CSS.escape(d.id))?.setAttribute("open", "");
      local(part);
      here.replaceWith(document.adoptNode(part));
      if (focused) [...part.querySelectorAll("a, button, summary, [tabindex]")][place]?.focus({ preventScroll: true });
    }
    const after = said();
    if (after !== before) say(after);
  }

  const say = (text) => { const live = document.querySelector("[data-live]"); if (live) live.textContent = text; };

  async function refresh() {
    try {
      const reply = await fetch(location.href, { headers: { "Headgate-Refresh": "1" }, credentials: "same-origin", redirect: "error" });
      if (reply.status === 401) {
        document.body.classList.add("stale");
        say("You are signed out: load the page again to sign in.");
        return false;
      }
      if (!reply.ok) throw new Error(String(reply.status));
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (!fresh.body.dataset.refreshEvery) { // it is over: the whole page is another
        location.reload();
        return false;
      }
      put(fresh);
      if (document.body.classList.contains("stale")) {
        document.body.classList.remove("stale");
        say("headgate answers again.");
      }
    } catch {
      document.body.classList.add("stale");
      say("headgate does not answer: what you see is old.");
    }
    return true;
  }

  async function loop(every) {
    for (;;) {
      await new Promise((done) => setTimeout(done, every));
      if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
      if (!(await refresh())) return;
    }
  }

  local(document);

  for (const form of document.querySelectorAll("form[data-filter]")) {
    for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());
    form.addEventListener("submit", () => {
      const empty = [...form.elements].filter((e) => e.name && !e.value);
      for (const e of empty) e.disabled = true;
      setTimeout(() => { for (const e of empty) e.disabled = false; });
    });
  }

  // A calendar is one stop of the tab key; arrows go from day to day.
  for (const table of document.querySelectorAll("table.cal")) {
    const days = [...table.querySelectorAll("a")];
    const newest = days.reduce((a, b) => a.search > b.search ? a : b, days[0]);
    for (const a of days) a.tabIndex = a === newest ? 0 : -1;
    table.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1 }[event.key];
      const cell = event.target.closest("td");
      if (!step || !cell) return;
      event.preventDefault();
      const at = (week, day) => table.tBodies[0].rows[day]?.cells[week]?.querySelector("a");
      let place = cell.cellIndex * 7 + cell.parentNode.rowIndex - 1;
      const last = table.tBodies[0].rows[0].cells.length * 7;
      for (place += step; place >= 7 && place < last; place += step) {
        const next = at(Math.floor(place / 7), place % 7);
        if (!next) continue;
        event.target.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
        return;
      }
    });
  }

  // An order that was sent once is not sent again by a second press.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    event.target.dataset.sent = "yes";
    addEventListener("pageshow", () => delete event.target.dataset.sent, { once: true });
  });

  const every = Number(document.body.dataset.refreshEvery) * 1000;
  if (every > 0) loop(every);
})();
