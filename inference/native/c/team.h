/* Threads that compute one step together: torch's own OpenMP team, so that no two teams fight for the cores.
 *
 * Work is taken in small parts by whoever is free, so that a thread that loses its core delays the others by
 * one part; who waits spins for some microseconds, then lets others run, then sleeps.
 */
#ifndef TEAM_H
#define TEAM_H

#include <stdatomic.h>

typedef struct Team {
    int threads;
    atomic_int arrived;
    atomic_int round;
    atomic_int next[2];     /* what is taken next in this phase, and in the one after it */
} Team;

/* Have `work` done by `threads` threads at once, each given its number. */
void team_run(int threads, void (*work)(Team *team, int thread, void *of), void *of);

/* The next part of `parts` in this phase that nobody has, or -1. */
int team_take(Team *team, int parts);

/* Wait until all have come here: a phase ends, and parts are counted from 0 again. */
void team_meet(Team *team);

#endif
