#include "parallel/mpi/mpi_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "parallel/cluster/proof.h"

typedef struct plugin_symbols {
  const yk_mpi_functions *(*functions_get)(void);
} plugin_symbols;

static yk_status load(const yk_mpi_functions **out, yk_err *err)
{
  static const yk_library_symbol symbols[] = {{"yk_mpi_functions_get", offsetof(plugin_symbols, functions_get)}};
  plugin_symbols plugin;
  yk_status status = yk_library_load("libyoke_mpi.so", symbols, 1, &plugin, err);
  if (status == YK_OK)
    *out = plugin.functions_get();
  else
    yk_err_prefix(err, "this process was started by MPI, and the plug-in for MPI cannot be loaded (build Yoke with "
                       "libopenmpi-dev, or start processes with --nnodes and --node-rank)");
  return status;
}

/* Number of processes according to the launcher, or 0. */
static int launched_processes(void)
{
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = getenv(names[i]);
    if (text) return atoi(text);
  }
  return 0;
}

/* A library that the launcher does not fit starts every process as one of one. */
static yk_status check_launcher(const yk_mpi_place *place, yk_err *err)
{
  const int n = launched_processes();
  if (n <= 1 || place->n_processes > 1) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "MPI: the launcher has started %d processes, but the MPI library that Yoke was built with finds "
                    "one: use that library's own mpirun, or srun --mpi=pmix",
                    n);
}

/* Address and key that process 0 gives to the others. */
typedef struct run_address {
  yk_status status;
  char host[YK_MPI_HOST_BYTES], key[YK_MPI_KEY_BYTES];
  int port;
} run_address;

static yk_status open_address(yk_mpi *mpi, const char *master_host, run_address *out, yk_err *err)
{
  unsigned char key[YK_NONCE_BYTES];
  if (mpi->place.n_on_host == mpi->place.n_processes)
    snprintf(out->host, sizeof out->host, "localhost");
  else if (master_host)
    snprintf(out->host, sizeof out->host, "%s", master_host);
  else if (gethostname(out->host, sizeof out->host - 1) != 0)
    return yk_err_set(err, YK_E_IO, "the host has no name");
  YK_TRY(yk_nonce(key, err));
  for (int i = 0; i < YK_NONCE_BYTES; i++) snprintf(out->key + (ptrdiff_t)2 * i, 3, "%02x", key[i]);
  const bool is_one_host = mpi->place.n_on_host == mpi->place.n_processes;
  YK_TRY(yk_listener_open(is_one_host ? out->host : NULL, 0, &mpi->listener, err));
  out->port = mpi->listener.port;
  return YK_OK;
}

yk_status yk_mpi_start(const char *master_host, yk_mpi *out, yk_err *err)
{
  run_address address = {.status = YK_OK};
  *out = (yk_mpi){.listener.fd = -1};
  YK_TRY(load(&out->functions, err));
  YK_TRY(out->functions->start(&out->place, err));
  YK_TRY(check_launcher(&out->place, err));
  if (out->place.process == 0) address.status = open_address(out, master_host, &address, err);
  YK_TRY(out->functions->broadcast(&address, sizeof address, err));
  if (address.status != YK_OK) return yk_err_set(err, address.status, "MPI: process 0 has no address to listen on");
  memcpy(out->master_host, address.host, sizeof address.host);
  memcpy(out->key, address.key, sizeof address.key);
  out->master_port = address.port;
  return YK_OK;
}

void yk_mpi_end(yk_mpi *mpi)
{
  mpi->functions->end();
}
