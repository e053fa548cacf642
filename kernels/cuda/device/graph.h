/* graph.h - recording of operations as a CUDA graph, and its replay: operations of the device's table, see
 * kernels/device.h. */
#ifndef YK_KERNELS_CUDA_DEVICE_GRAPH_H
#define YK_KERNELS_CUDA_DEVICE_GRAPH_H

#include "kernels/device.h"

yk_status yk_cuda_graph_begin(yk_device *dev, yk_err *err);
yk_status yk_cuda_graph_end(yk_device *dev, yk_graph **out, yk_err *err);
yk_status yk_cuda_graph_run(yk_device *dev, const yk_graph *graph, yk_err *err);
void yk_cuda_graph_destroy(yk_device *dev, yk_graph *graph);

#endif
