#include "line.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* As many words go back and forth, so often; the best burst counts, for others may take a core away. */
enum { TRIPS = 200, BURSTS = 12, LOOKS_BEFORE_YIELD = 20000 };

struct exchange {
    _Alignas(128) _Atomic uint32_t there;
    _Alignas(128) _Atomic uint32_t back;
    int cpu;
};

static bool bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* Yields in the end: the other one may not be running. */
static void await(_Atomic uint32_t *word, uint32_t value)
{
    for (int looks = 0; atomic_load_explicit(word, memory_order_acquire) != value; looks++)
        if (looks > LOOKS_BEFORE_YIELD)
            sched_yield();
}

static void *answer(void *context)
{
    struct exchange *exchange = context;
    bind_to(exchange->cpu);
    for (uint32_t trip = 1; trip <= TRIPS * BURSTS; trip++) {
        await(&exchange->there, trip);
        atomic_store_explicit(&exchange->back, trip, memory_order_release);
    }
    return NULL;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double ask(struct exchange *exchange)
{
    double best = 0;
    uint32_t trip = 0;
    for (int burst = 0; burst < BURSTS; burst++) {
        double began = now_ns();
        for (int i = 0; i < TRIPS; i++) {
            atomic_store_explicit(&exchange->there, ++trip, memory_order_release);
            await(&exchange->back, trip);
        }
        double cost = (now_ns() - began) / (2 * TRIPS);
        best = burst == 0 || cost < best ? cost : best;
    }
    return best;
}

double line_cost(int cpu, int other)
{
    struct exchange exchange = { .cpu = other };
    cpu_set_t before;
    pthread_t thread;
    double cost = 0;
    if (cpu == other || sched_getaffinity(0, sizeof before, &before) != 0)
        return 0;
    if (bind_to(cpu) && pthread_create(&thread, NULL, answer, &exchange) == 0) {
        cost = ask(&exchange);
        pthread_join(thread, NULL);
    }
    sched_setaffinity(0, sizeof before, &before);
    return cost;
}
