/** The page's state and its subscribers. Knows no DOM element and no server. */

export class Store {
  #subscribers = [];

  constructor(state) {
    this.state = state;
  }

  /** Change a part of the state; calls each subscriber of a changed field once. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    Object.assign(this.state, changes);
    for (const { names, callback } of this.#subscribers) {
      if (names.some((name) => changed.includes(name))) callback(this.state);
    }
  }

  setParam(name, value) {
    this.set({ params: { ...this.state.params, [name]: value } });
  }

  /** Call `callback(state)` now, and whenever one of the fields `names` changes. */
  subscribe(names, callback) {
    this.#subscribers.push({ names, callback });
    callback(this.state);
  }
}
