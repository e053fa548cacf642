/* mpi_parent.c - a process of MPI whose children have the ranks: see yoke/mpi_parent.h. */
#include <stdio.h>
#include <stdlib.h>

#include "parallel/mpi/mpi_start.h"
#include "yoke/yoke.h"

struct yk_mpi_parent {
  yk_mpi mpi;
};

static yk_status set_number(const char *name, int value, yk_err *err)
{
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  return setenv(name, text, 1) == 0 ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the environment");
}

static yk_status set_text(const char *name, const char *text, yk_err *err)
{
  return setenv(name, text, 1) == 0 ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the environment");
}

static yk_status describe(const yk_mpi *mpi, yk_err *err)
{
  unsetenv("TORCHELASTIC_USE_AGENT_STORE"); /* would change the port */
  YK_TRY(set_number("WORLD_SIZE", mpi->place.n_processes, err));
  YK_TRY(set_number("RANK", mpi->place.process, err));
  YK_TRY(set_number("LOCAL_RANK", mpi->place.on_host, err));
  YK_TRY(set_number("MASTER_PORT", mpi->master_port, err));
  YK_TRY(set_text("MASTER_ADDR", mpi->master_host, err));
  return set_text("YOKE_CLUSTER_KEY", mpi->key, err);
}

yk_status yk_mpi_parent_start(const char *master_host, yk_mpi_parent **out, yk_err *err)
{
  yk_mpi_parent *parent = calloc(1, sizeof *parent);
  if (!parent) return yk_err_set(err, YK_E_NOMEM, "no memory for a process of MPI");
  yk_status status = yk_mpi_start(master_host, &parent->mpi, err);
  if (status == YK_OK && parent->mpi.place.process == 0) status = yk_listener_hold(&parent->mpi.listener, err);
  if (status == YK_OK) status = describe(&parent->mpi, err);
  if (status == YK_OK)
    *out = parent;
  else
    free(parent);
  return status;
}

void yk_mpi_parent_end(yk_mpi_parent *parent, bool in_order)
{
  if (!parent) return;
  if (parent->mpi.place.process == 0) yk_listener_close(&parent->mpi.listener);
  if (in_order) yk_mpi_end(&parent->mpi);
  free(parent);
}
