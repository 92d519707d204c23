/* Threads that compute one step together: torch's own OpenMP team, so that no two teams fight for the cores.
 *
 * Work is taken in small parts by whoever is free, so that a thread that loses its core delays the others by
 * one part; who waits spins for some microseconds, then lets others run, then sleeps.
 */
#ifndef TEAM_H
#define TEAM_H

#include <stdalign.h>
#include <stdatomic.h>

enum { LINE = 64 };     /* bytes that move between cores together: what one thread waits for has its own */

typedef struct Team {
    alignas(LINE) atomic_int threads;   /* as many as there are, which may be less than were asked for */
    alignas(LINE) atomic_int next;      /* the part taken next in this phase */
    alignas(LINE) atomic_int arrived;   /* at the end of this phase */
    alignas(LINE) atomic_int round;     /* phases that have ended */
    alignas(LINE) atomic_int asleep;
} Team;

/* Have `work` done by up to `threads` threads at once, each given its number in [0, team->threads). */
void team_run(int threads, void (*work)(Team *team, int thread, void *of), void *of);

/* The next part of `parts` in this phase that nobody has, or -1. */
int team_take(Team *team, int parts);

/* The part that whoever has `part` will probably take behind it, or -1: they come to all in turn. */
int team_after(const Team *team, int part, int parts);

/* Wait until all have come here: a phase ends, and parts are counted from 0 again. */
void team_meet(Team *team);

#endif
