/** Keeps the end of the only answer in view while it grows, until the reader scrolls away from it. */

const NEAR_END = 48; // CSS pixels

/** `root` scrolls, and the answer is at its end. Call after the view of the completions. */
export function followAnswer(root, store) {
  let followed = null; // the generation whose answer is followed
  let isFollowing = false;
  root.addEventListener(
    "scroll",
    () => (isFollowing = root.scrollHeight - root.clientHeight - root.scrollTop < NEAR_END),
    { passive: true },
  );
  store.subscribe(["completions"], ({ completions, generation, running }) => {
    if (!running || completions.length !== 1) return;
    if (generation !== followed) [followed, isFollowing] = [generation, true];
    if (isFollowing) root.scrollTop = root.scrollHeight;
  });
}
