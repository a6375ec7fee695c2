/* Plait and MPI in one process: mpi_beside before|after|inside. Ranks of mpirun that start MPI after Plait, before
 * it, or have it started by Plait's module; all of them make two worlds. */
#include <mpi.h>
#include <plait.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, plait_last_error());
    return 1;
}

static int use_plait(void)
{
    plait_world *world = NULL;
    float one = 1, sum = 0;
    if (plait_world_create(NULL, &world) != PLAIT_OK)
        return complain("creating a world");
    plait_status status = plait_allreduce(plait_world_comm(world), &one, &sum, 1, PLAIT_F32, PLAIT_SUM, NULL);
    int wrong = status != PLAIT_OK || (int)sum != plait_world_size(world);
    if (wrong)
        complain("all-reduce");
    plait_world_destroy(world);
    return wrong;
}

static int use_mpi(int *rank)
{
    float one = 1, sum = 0;
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (int)sum != size;
}

int main(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "before";
    int wrong = 0, rank = 0, there = 0;
    if (strcmp(order, "before") == 0)
        MPI_Init(NULL, NULL);
    wrong = use_plait() || use_plait();
    MPI_Initialized(&there);
    if (!there)
        MPI_Init(NULL, NULL);
    wrong = wrong || use_mpi(&rank) || use_plait();
    if (strcmp(order, "inside") != 0) /* there it is the module's to end it */
        MPI_Finalize();
    if (rank == 0 && !wrong)
        printf("mpi_beside: all is well\n");
    return wrong;
}
