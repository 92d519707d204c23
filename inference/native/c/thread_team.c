/* A team of OpenMP threads. Knows how to share tasks and how to wait; knows nothing of the work. */
#define _GNU_SOURCE
#include "thread_team.h"

#include <sched.h>
#include <time.h>

#if __has_include(<omp.h>)
#include <omp.h>
#else                                   /* Apple's compiler comes without it; torch has the library */
int omp_get_num_threads(void);
int omp_get_thread_num(void);
#endif

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { SPINS = 1000, YIELDS = 4 };      /* a spin is 15 to 50 ns */

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while the value is `expected`; for 50 us on systems without futexes. May return early. */
static void sleep_while(atomic_int *value, int expected)
{
#ifdef __linux__
    syscall(SYS_futex, value, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
#else
    const struct timespec moment = {0, 50000};
    (void)value, (void)expected;
    nanosleep(&moment, NULL);
#endif
}

static void wake_all(atomic_int *value)
{
#ifdef __linux__
    syscall(SYS_futex, value, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
#else
    (void)value;
#endif
}

static int is_over(Team *team, int round)
{
    return atomic_load_explicit(&team->round, memory_order_acquire) != round;
}

static void wait_for_the_end(Team *team, int round)
{
    for (int i = 0; i < SPINS; i++) {
        if (is_over(team, round))
            return;
        pause_core();
    }
    for (int i = 0; i < YIELDS; i++) {
        sched_yield();
        if (is_over(team, round))
            return;
    }
    /* The thread that ends the phase writes `round`, then reads `asleep`; this thread writes `asleep`, then reads
     * `round`. At least one of them sees the other's write, so no wake-up is lost. */
    atomic_fetch_add(&team->asleep, 1);
    while (!is_over(team, round))
        sleep_while(&team->round, round);
    atomic_fetch_sub(&team->asleep, 1);
}

void team_meet(Team *team)
{
    const int threads = atomic_load_explicit(&team->threads, memory_order_relaxed);
    const int round = atomic_load_explicit(&team->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 < threads) {
        wait_for_the_end(team, round);
        return;
    }
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    atomic_store(&team->round, round + 1);
    if (atomic_load(&team->asleep))
        wake_all(&team->round);
}

int team_take(Team *team, int num_tasks)
{
    if (atomic_load_explicit(&team->next, memory_order_relaxed) >= num_tasks)
        return -1;
    const int task = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
    return task < num_tasks ? task : -1;
}

int team_after(const Team *team, int task, int num_tasks)
{
    const int after = task + atomic_load_explicit(&team->threads, memory_order_relaxed);
    return after < num_tasks ? after : -1;
}

void team_run(int threads, void (*work)(Team *team, int thread, void *arg), void *arg)
{
    Team team = {.threads = 1};
    if (threads < 2) {
        work(&team, 0, arg);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        /* All threads store the same number, each before it reads it. */
        atomic_store_explicit(&team.threads, omp_get_num_threads(), memory_order_relaxed);
        work(&team, omp_get_thread_num(), arg);
        team_meet(&team);   /* wait here rather than in libgomp, which may spin much longer */
    }
}
