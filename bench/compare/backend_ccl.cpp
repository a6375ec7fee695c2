// oneCCL on the common loop, over the MPI that it comes with.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "loop.h"
#include "oneapi/ccl.hpp"

namespace
{

std::unique_ptr<ccl::communicator> comm;

// rank 0's key-value store, by whose address the others find it
ccl::shared_ptr_class<ccl::kvs> shared_store(int rank)
{
    ccl::kvs::address_type address;
    ccl::shared_ptr_class<ccl::kvs> store;
    if (rank == 0) {
        store = ccl::create_main_kvs();
        address = store->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    return rank == 0 ? store : ccl::create_kvs(address);
}

bool start(int *argc, char ***argv, int *rank, int *ranks)
{
    try {
        ccl::init();
        MPI_Init(argc, argv);
        MPI_Comm_rank(MPI_COMM_WORLD, rank);
        MPI_Comm_size(MPI_COMM_WORLD, ranks);
        comm =
            std::make_unique<ccl::communicator>(ccl::create_communicator(*ranks, *rank, shared_store(*rank)));
        return true;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "compare: oneCCL: %s\n", error.what());
        return false;
    }
}

const char *version()
{
    static std::string text;
    ccl::library_version library = ccl::get_library_version();
    text = "oneCCL " + std::to_string(library.major) + "." + std::to_string(library.minor) + "." +
           std::to_string(library.update);
    return text.c_str();
}

bool can(enum collective, enum type, enum memory memory)
{
    return memory == PRIVATE;
}

ccl::event begin(const struct call *call)
{
    ccl::datatype type = call->type == FLOAT32 ? ccl::datatype::float32 : ccl::datatype::bfloat16;
    char *output = static_cast<char *>(call->output);
    size_t block = call->count * type_size(call->type);
    switch (call->collective) {
    case ALL_REDUCE:
        return ccl::allreduce(call->input, output, call->count, type, ccl::reduction::sum, *comm);
    case ALL_GATHER: return ccl::allgather(call->input, output, call->count, type, *comm);
    case BROADCAST: return ccl::broadcast(output, call->count, type, call->root, *comm);
    case REDUCE_SCATTER:
        return ccl::reduce_scatter(call->input, output + block * static_cast<size_t>(comm->rank()),
                                   call->count, type, ccl::reduction::sum, *comm);
    case ALL_TO_ALL: return ccl::alltoall(call->input, output, call->count, type, *comm);
    default: return ccl::barrier(*comm);
    }
}

bool make_call(const struct call *call)
{
    try {
        begin(call).wait();
        return true;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "compare: oneCCL: %s\n", error.what());
        return false;
    }
}

void finish()
{
    comm.reset();
    MPI_Finalize();
}

} // namespace

int main(int argc, char **argv)
{
    struct backend backend = {};
    backend.name = "oneccl";
    backend.start = start;
    backend.version = version;
    backend.can = can;
    backend.collective = make_call;
    backend.finish = finish;
    return loop_run(&backend, argc, argv);
}
