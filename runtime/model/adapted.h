/* adapted.h - the linear layers of one rank that low-rank adapters may change, and the slices of an adapter's matrices
 * for each layer.
 *
 * A layer's parts take the rows of B of their outputs and the columns of A of their inputs: a column-parallel layer has
 * a share of B, a row-parallel one a share of A. Each rank's product is then a part of the same partial sum as the
 * layer's own result. */
#ifndef YK_MODEL_ADAPTED_H
#define YK_MODEL_ADAPTED_H

#include "kernels/device.h"
#include "loader/adapter/adapter.h"

/* Owner: the model. */
typedef struct yk_adapted {
  struct yk_adapted_layer *layers; /* [n] */
  size_t n, capacity;
} yk_adapted;

/* The modules of a linear layer's parts. */
typedef struct yk_adapted_place {
  int32_t layer;
  const yk_weight_role *roles; /* [the layer's parts] */
  const int32_t *columns;      /* [columns of x] of A, or NULL: those of the part's k */
} yk_adapted_place;

/* yk_adapted_add - records a loaded layer; no effect if the spec has no adapters. spec: as it was loaded, with the
 *   orders of outputs, which are copied. linear must outlive adapted. Errors: YK_E_NOMEM. */
yk_status yk_adapted_add(yk_adapted *adapted, const yk_adapted_place *place, const yk_linear_spec *spec,
                         yk_linear *linear, yk_err *err);
void yk_adapted_free(yk_adapted *adapted);

/* yk_adapted_set - give all layers the adapter as number 1 .. n_adapters. After an error the number must not be used.
 *   Errors: YK_E_NOMEM, YK_E_IO (the file lost bytes), YK_E_UNSUPPORTED (the norm before a module of the adapter has an
 *   offset), those of the device. Thread: the rank's own. */
yk_status yk_adapted_set(const yk_adapted *adapted, yk_device *dev, yk_model_family family, const yk_adapter *adapter,
                         int32_t number, yk_err *err);

#endif
