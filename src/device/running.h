/* Running reductions: the results after each of several sources, as a scan wants them. */
#ifndef PLAIT_DEVICE_RUNNING_H
#define PLAIT_DEVICE_RUNNING_H

#include "plait.h"

/* Result k, at first_result + k * stride, is the fold of sources 0 .. k, and has the very bits that reduce_find()'s
 * kernel gives for those: `count` elements each, `source_count` results. No result may overlap a source. */
void reduce_running(plait_type type, plait_op op, void *first_result, size_t stride,
                    const void *const *sources, int source_count, size_t count);

#endif
