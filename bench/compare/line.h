/* What a cache line costs between two cores. On a virtual machine the cores move, within seconds
 * to minutes, and a line then costs up to ten times as much: two times compare only while this agrees. */
#ifndef PLAIT_COMPARE_LINE_H
#define PLAIT_COMPARE_LINE_H

/* Nanoseconds, one way, between the two CPUs: the best of several bursts, about a millisecond in
 * all. 0 when they are one, or can't be used. The caller's affinity is as before afterwards. */
double line_cost(int cpu, int other);

#endif
