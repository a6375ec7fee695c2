#include "completion.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "work.h"

namespace plait_torch {

/*
 * Threads on which python may run. There is always one to spare when work
 * comes: a continuation may wait for a further work's future, as PowerSGD's do.
 */
class Completion {
  public:
    void push(c10::intrusive_ptr<WorkPlait> work)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(work));
        if (queue_.size() > idle_) {
            std::thread([this] { run(); }).detach();
            running_++;
            idle_++;
        }
        wake_.notify_one();
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        /* Bounded: a continuation may be stuck for good, and the process wants to end. */
        ended_.wait_for(lock, std::chrono::seconds(2), [this] { return running_ == 0; });
        stopping_ = false;
    }

    pid_t pid = getpid();

  private:
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty())
                break;
            c10::intrusive_ptr<WorkPlait> work = std::move(queue_.front());
            queue_.pop_front();
            idle_--;
            lock.unlock();
            work->complete();
            work.reset();
            lock.lock();
            idle_++;
        }
        idle_--;
        running_--;
        ended_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable wake_, ended_;
    std::deque<c10::intrusive_ptr<WorkPlait>> queue_;
    size_t idle_ = 0;    /* threads waiting for work, or about to */
    size_t running_ = 0; /* all of them */
    bool stopping_ = false;
};

/* Never freed: its threads may outlive main(). A forked child has none of them and starts afresh. */
static Completion &completion()
{
    static std::mutex mutex;
    static Completion *current = nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    if (current == nullptr || current->pid != getpid())
        current = new Completion;
    return *current;
}

void complete_later(c10::intrusive_ptr<WorkPlait> work)
{
    completion().push(std::move(work));
}

void stop_completion()
{
    completion().stop();
}

} // namespace plait_torch
