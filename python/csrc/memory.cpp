/* Tensors in memory that the ranks of a host read in place: plait_mem_alloc() behind torch's allocators. */
#include <cstring>

#include <c10/core/Allocator.h>

#include "process_group.h"
#include "world.h"

namespace plait_torch {

/* Keeps the world: its end would take the memory from under the tensor. */
struct Window {
    std::shared_ptr<World> world;
    void *memory;
};

static void release_window(void *context)
{
    auto *window = static_cast<Window *>(context);
    /* A refusal means that a call which nobody waited for still uses it; the end of the world frees it then. */
    plait_mem_free(window->world->handle, window->memory);
    delete window;
}

class WindowAllocator final : public c10::Allocator {
  public:
    explicit WindowAllocator(std::shared_ptr<World> world) : world_(std::move(world))
    {
    }

    c10::DataPtr allocate(size_t size) override
    {
        if (size == 0)
            return {nullptr, c10::Device(c10::kCPU)};
        void *memory = nullptr;
        plait_status status = plait_mem_alloc(world_->handle, size, &memory);
        TORCH_CHECK_WITH(OutOfMemoryError, status != PLAIT_OUT_OF_MEMORY, "plait: ", plait_last_error());
        if (status != PLAIT_OK)
            throw_failure(status, plait_last_error());
        return {memory, new Window{world_, memory}, release_window, c10::Device(c10::kCPU)};
    }

    void copy_data(void *to, const void *from, size_t size) const override
    {
        std::memcpy(to, from, size);
    }

  private:
    const std::shared_ptr<World> world_;
};

std::shared_ptr<c10::Allocator> ProcessGroupPlait::getMemAllocator()
{
    std::lock_guard<std::mutex> lock(call_mutex_);
    TORCH_CHECK_WITH(DistBackendError, world_ != nullptr, "plait: this process group was shut down, and has no memory "
                     "to give");
    return std::make_shared<WindowAllocator>(world_);
}

/* `size` elements in one dimension, zeros. */
at::Tensor ProcessGroupPlait::allocateTensor(long size, at::TensorOptions options)
{
    TORCH_CHECK_VALUE(size >= 0, "plait: allocate_tensor takes a number of elements, 0 or more, and got ", size);
    TORCH_CHECK_VALUE(options.device().is_cpu(), "plait: allocate_tensor has memory of the CPU only, and was asked for "
                      "some of ", options.device());
    size_t bytes = static_cast<size_t>(size) * options.dtype().itemsize();
    auto memory = std::make_shared<c10::DataPtr>(getMemAllocator()->allocate(bytes));
    void *data = memory->get();
    return at::from_blob(data, {static_cast<int64_t>(size)}, [memory](void *) mutable { memory.reset(); },
                         options.device(c10::kCPU).requires_grad(false));
}

bool ProcessGroupPlait::supportsTensorAlloc(c10::DeviceIndex /*device*/)
{
    return true;
}

} // namespace plait_torch
