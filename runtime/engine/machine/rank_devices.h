/* rank_devices.h - the devices of this process's ranks and their ends of the communicator. */
#ifndef YK_ENGINE_MACHINE_RANK_DEVICES_H
#define YK_ENGINE_MACHINE_RANK_DEVICES_H

#include "engine/machine/settings.h"
#include "parallel/cluster/cluster.h"
#include "parallel/cluster/wire_tcp.h"
#include "parallel/comm.h"

typedef struct yk_rank_devices {
  int n_local;                   /* from world.first_rank on */
  yk_device *devs[YK_MAX_RANKS]; /* [n_local], like comms */
  yk_comm *comms[YK_MAX_RANKS];
  yk_wires wires; /* of the communicator, with a cluster */
} yk_rank_devices;

/* yk_rank_devices_open - one device per rank as in the settings, connected. cluster: the processes that have the
 *   world's ranks, all of which call this function; NULL: one process. yk_rank_devices_close must follow, after an
 *   error too. Errors: YK_E_CAPACITY (more ranks than devices), YK_E_INVAL, YK_E_UNSUPPORTED, YK_E_DEVICE, YK_E_COMM,
 *   YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_rank_devices_open(const yk_settings *settings, yk_cluster *cluster, yk_rank_devices *out, yk_err *err);

/* yk_rank_devices_close - the devices must be idle, and everything allocated on them freed. Returns whether the
 *   communicator is completely gone, as its destroy does. */
bool yk_rank_devices_close(yk_rank_devices *devices);

#endif
