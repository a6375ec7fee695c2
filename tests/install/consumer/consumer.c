/* What a user of the installed library writes; C99 and C++11 alike. */
#include <plait.h>

#include <stdio.h>

int main(void)
{
    plait_world *world = NULL;
    float sum[2] = { 2.5f, 0 };
    plait_status status = plait_world_create(NULL, &world);
    if (status == PLAIT_OK)
        status = plait_allreduce(plait_world_comm(world), sum, sum, 2, PLAIT_F32, PLAIT_SUM, NULL);
    if (status == PLAIT_OK)
        printf("rank %d of %d adds 2.5 and 0: %g\n", plait_world_rank(world), plait_world_size(world),
               (double)(sum[0] + sum[1]));
    else
        fprintf(stderr, "%s: %s\n", plait_status_name(status), plait_last_error());
    plait_world_destroy(world);
    return status == PLAIT_OK ? 0 : 1;
}
