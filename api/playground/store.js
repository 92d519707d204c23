/** The page's state, and who is told when it changes. Knows no element and no server. */

export class Store {
  #watchers = [];

  constructor(state) {
    this.state = state;
  }

  /** Change some of the state; those who watch what really changed are called, once each. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    Object.assign(this.state, changes);
    for (const { names, call } of this.#watchers) {
      if (names.some((name) => changed.includes(name))) call(this.state);
    }
  }

  setParam(name, value) {
    this.set({ params: { ...this.state.params, [name]: value } });
  }

  /** Call now, and whenever one of `names` changes. */
  watch(names, call) {
    this.#watchers.push({ names, call });
    call(this.state);
  }
}
