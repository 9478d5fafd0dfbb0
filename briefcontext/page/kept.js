// The last answers, kept in this tab alone: they outlast a reload and the way back, and go when the tab is closed.

const KEY = "briefcontext-answers";
const MOST = 10;

function all() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? [];
  } catch {
    return [];
  }
}

/** Keep a run, `{ id, asked, day, lines }`; of more than fit, the oldest go. */
export function keep(run) {
  for (let kept = [...all(), run].slice(-MOST); kept.length > 0; kept = kept.slice(1)) {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(kept));
      return;
    } catch {
      // There is no room for so many.
    }
  }
}

export function find(id) {
  return all().find((run) => run.id === id);
}
