/* A team of threads that compute one step together. It is torch's own OpenMP team: two teams would compete for cores.
 *
 * Free threads take small tasks, so a thread that loses its core delays the others by at most one task. A waiting
 * thread spins for some microseconds, then yields, then sleeps.
 */
#ifndef THREAD_TEAM_H
#define THREAD_TEAM_H

#include <stdalign.h>
#include <stdatomic.h>

enum { CACHE_LINE = 64 };   /* bytes; each atomic has a line of its own */

typedef struct Team {
    alignas(CACHE_LINE) atomic_int threads;   /* in the team: may be fewer than requested */
    alignas(CACHE_LINE) atomic_int next;      /* the next task of this phase */
    alignas(CACHE_LINE) atomic_int arrived;   /* threads at the end of this phase */
    alignas(CACHE_LINE) atomic_int round;     /* number of phases that have ended */
    alignas(CACHE_LINE) atomic_int asleep;    /* threads that sleep or are about to */
} Team;

/* Run `work` on up to `threads` threads at once. Each gets its number in [0, team->threads). */
void team_run(int threads, void (*work)(Team *team, int thread, void *arg), void *arg);

/* Take the next of this phase's `num_tasks` tasks. Returns -1 if all are taken. */
int team_take(Team *team, int num_tasks);

/* The task that the thread with `task` will probably take next, or -1: the threads mostly take tasks in turn. */
int team_after(const Team *team, int task, int num_tasks);

/* A barrier: wait for all threads of the team. Ends the phase; the next one counts tasks from 0. */
void team_meet(Team *team);

#endif
