// A caller's function in C++ that throws on one of two ranks: the call fails on both, and says where.
#include <plait.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

static int add(void *context, const void *left, void *right, size_t count, plait_type)
{
    return plait::guard([&] {
        const float *lefts = static_cast<const float *>(left);
        float *rights = static_cast<float *>(right);
        if (*static_cast<int *>(context) == 1)
            throw std::runtime_error("no more");
        for (size_t i = 0; i < count; i++)
            rights[i] += lefts[i];
        return 0;
    });
}

static bool is_told(plait_thread_group *group, int rank)
{
    plait_world_options options = plait_world_options();
    options.threads = group;
    options.rank = rank;
    options.size = 2;
    plait_function_op function = plait_function_op();
    function.name = "add";
    function.function = add;
    function.context = &rank;
    plait_world *world = NULL;
    plait_op op = PLAIT_SUM;
    float sum[1000] = { 0 };
    bool told = plait_world_create(&options, &world) == PLAIT_OK &&
                plait_op_create_function(&function, &op) == PLAIT_OK &&
                plait_allreduce(plait_world_comm(world), sum, sum, 1000, PLAIT_F32, op, NULL) ==
                    PLAIT_CALLER_FAILED &&
                std::strstr(plait_last_error(), "returned -1000 on rank 1") != NULL &&
                plait_barrier(plait_world_comm(world), NULL) == PLAIT_OK;
    if (!told)
        std::fprintf(stderr, "rank %d: \"%s\"\n", rank, plait_last_error());
    plait_op_destroy(op);
    plait_world_destroy(world);
    return told;
}

int main()
{
    plait_thread_group *group = NULL;
    bool told[2] = { false, false };
    if (plait_thread_group_create(2, &group) != PLAIT_OK)
        return 1;
    std::thread other([&] { told[1] = is_told(group, 1); });
    told[0] = is_told(group, 0);
    other.join();
    plait_thread_group_destroy(group);
    return told[0] && told[1] ? 0 : 1;
}
