/* Memory bandwidth of reads: `bandwidth THREADS` prints bytes per second, the best of PASSES.
 * Each thread sums its own part of an array that is larger than any cache. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 29, PASSES = 12, WIDE = 8 };

typedef uint64_t Lanes __attribute__((vector_size(64)));

static uint64_t pass(const Lanes *from, int64_t count)
{
    uint64_t sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        int64_t part = count / omp_get_num_threads() / WIDE * WIDE;
        const Lanes *own = from + part * omp_get_thread_num();
        Lanes sums[WIDE] = {{0}};
        for (int64_t i = 0; i < part; i += WIDE)
            for (int lane = 0; lane < WIDE; lane++)
                sums[lane] += own[i + lane];
        for (int lane = 0; lane < WIDE; lane++)
            sum += sums[lane][0];
    }
    return sum;
}

int main(int count, char **arguments)
{
    omp_set_num_threads(count > 1 ? atoi(arguments[1]) : omp_get_num_procs());
    Lanes *array = aligned_alloc(1 << 21, BYTES);
    if (!array)
        return 1;
    int64_t lanes = BYTES / sizeof *array;
#pragma omp parallel for
    for (int64_t i = 0; i < lanes; i++)
        array[i] = (Lanes){(uint64_t)i};
    double best = 0;
    volatile uint64_t sum = 0;      /* volatile: the compiler must not remove a pass */
    for (int turn = 0; turn < PASSES; turn++) {
        double began = omp_get_wtime();
        sum += pass(array, lanes);
        double rate = BYTES / (omp_get_wtime() - began);
        best = rate > best ? rate : best;
    }
    printf("%.0f\n", best);
    free(array);
    return 0;
}
