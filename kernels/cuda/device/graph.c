/* graph.c - capture of everything that operations launch on the stream, and its replay as one launch. */
#include "kernels/cuda/device/graph.h"

#include <stdlib.h>

#include "kernels/cuda/device/state.h"

struct yk_graph {
  cudaGraphExec_t exec;
};

/* Capture is thread-local: concurrent calls of other ranks' threads neither fail nor become part of the graph. */
yk_status yk_cuda_graph_begin(yk_device *dev, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal), "recording", err);
}

yk_status yk_cuda_graph_end(yk_device *dev, yk_graph **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  cudaGraph_t recorded = NULL;
  YK_TRY(yk_cuda_enter(cuda, err));
  yk_status status = yk_cuda_check(cuda, cudaStreamEndCapture(cuda->stream, &recorded), "end of recording", err);
  yk_graph *graph = NULL;
  if (status == YK_OK && out) {
    graph = calloc(1, sizeof *graph);
    status = graph ? yk_cuda_check(cuda, cudaGraphInstantiate(&graph->exec, recorded, 0), "graph", err)
                   : yk_err_set(err, YK_E_NOMEM, "no memory for a graph");
  }
  if (status == YK_OK && graph)
    status = yk_cuda_check(cuda, cudaGraphUpload(graph->exec, cuda->stream), "graph upload", err);
  if (recorded) cudaGraphDestroy(recorded);
  if (status == YK_OK && out)
    *out = graph;
  else
    yk_cuda_graph_destroy(dev, graph);
  return status;
}

yk_status yk_cuda_graph_run(yk_device *dev, const yk_graph *graph, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, cudaGraphLaunch(graph->exec, cuda->stream), "graph", err);
}

void yk_cuda_graph_destroy(yk_device *dev, yk_graph *graph)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!graph) return;
  if (graph->exec && yk_cuda_enter(cuda, NULL) == YK_OK) {
    yk_cuda_drain(cuda, "destroy", NULL);
    cudaGraphExecDestroy(graph->exec);
  }
  free(graph);
}
