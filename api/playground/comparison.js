/** Generations of several models for one prompt, side by side. Knows no DOM element. */

/** In the place of a Generation. Each column ends, fails and is stopped by itself. */
export class Comparison {
  constructor(generations) {
    this.generations = generations;
    this.request = generations[0].request;
    this.completions = generations.flatMap(({ completions }) => completions);
  }

  /** The generation of a completion. */
  columnOf(completion) {
    return this.generations.find(({ completions }) => completions.includes(completion));
  }

  stop() {
    for (const generation of this.generations) generation.stop();
  }

  /** Resolves when every column has ended. Throws the first error if all have failed. */
  async run(key, onChange) {
    const errors = await Promise.all(
      this.generations.map((generation) =>
        generation.run(key, onChange).catch((error) => {
          generation.error = error;
          onChange();
          return error;
        }),
      ),
    );
    if (errors.every(Boolean)) throw errors[0];
  }

  get startedAt() {
    return this.generations[0].startedAt;
  }

  /** Of the first column that has one; 0: none has. */
  get firstTokenAt() {
    const times = this.generations.map((each) => each.firstTokenAt).filter(Boolean);
    return times.length ? Math.min(...times) : 0;
  }

  get truncated() {
    return this.generations[0].truncated;
  }

  get tokensPerSecond() {
    return this.generations.reduce((sum, each) => sum + each.tokensPerSecond, 0);
  }
}
