#include "bind.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

/* The first hardware thread of the core that `cpu` belongs to; `cpu` itself where the system does not tell. */
static int first_thread_of(int cpu)
{
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *list = fopen(path, "re");
    if (!list)
        return cpu;
    if (fscanf(list, "%d", &first) != 1)
        first = cpu;
    fclose(list);
    return first;
}

/* Number `index` of the allowed CPUs that are, or are not, the first of their core; what is left of `index`. */
static int find_cpu(const cpu_set_t *allowed, bool first, int *index)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && (first_thread_of(cpu) == cpu) == first && (*index)-- == 0)
            return cpu;
    return NOT_BOUND;
}

int bind_to_core(int local_rank, int local_size)
{
    cpu_set_t allowed, own;
    if (local_rank < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) < local_size)
        return NOT_BOUND;
    int index = local_rank, cpu = find_cpu(&allowed, true, &index);
    if (cpu == NOT_BOUND)
        cpu = find_cpu(&allowed, false, &index);
    if (cpu == NOT_BOUND)
        return NOT_BOUND;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    return sched_setaffinity(0, sizeof own, &own) == 0 ? cpu : NOT_BOUND;
}

int bind_allowed(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}
