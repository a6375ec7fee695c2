/* MPI itself, through libplait-mpi.so: for ranks whose launcher speaks neither PMIx (or has a library of it that is
 * not to be found) nor PMI. It lies beside libplait.so or where the system looks for libraries. */
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/launcher.h"
#include "modules/mpi.h"

_Static_assert((int)WORD_BYTES == (int)PLAIT_MPI_WORD_BYTES, "the module takes a word");

static const char module[] = "libplait-mpi.so";

/* RTLD_GLOBAL: the plugins of some MPIs look for symbols of their library. */
static void *open_module(void)
{
    char path[1024], folder[1024];
    Dl_info self;
    void *handle = NULL;
    if (dladdr(&launcher_mpi, &self) != 0 && self.dli_fname != NULL) {
        snprintf(folder, sizeof folder, "%s", self.dli_fname);
        if (snprintf(path, sizeof path, "%s/%s", dirname(folder), module) < (int)sizeof path)
            handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return handle != NULL ? handle : dlopen(module, RTLD_NOW | RTLD_GLOBAL);
}

static plait_status share(int rank, int size, char word[WORD_BYTES], int64_t deadline)
{
    char why[600] = "";
    void *handle = open_module();
    if (handle == NULL)
        return failure(PLAIT_UNSUPPORTED, "%s can't be loaded (%.200s); build Plait where MPI is", module,
                       dlerror());
    void *symbol = dlsym(handle, "plait_mpi_share");
    plait_mpi_share_function *function;
    memcpy(&function, &symbol, sizeof function);
    if (symbol == NULL)
        return failure(PLAIT_UNSUPPORTED, "%s is of another version of Plait; install both anew", module);
    if (function(rank, size, word, deadline_left_ms(deadline), why, sizeof why) != 0)
        return failure(PLAIT_START_FAILED, "rank 0's address did not come through MPI: %s", why);
    return PLAIT_OK;
}

const struct launcher_service launcher_mpi = { "MPI", share, NULL };
