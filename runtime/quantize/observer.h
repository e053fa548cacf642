/* observer.h - a device that passes the inputs of a model's layers to an observer, and otherwise behaves as before.
 *
 * A device is a table of operations, so a table with some entries replaced sees the inputs of every layer of every kind
 * of model, and models need no code for observation. */
#ifndef YK_QUANTIZE_OBSERVER_H
#define YK_QUANTIZE_OBSERVER_H

#include "kernels/device.h"

typedef struct yk_observer {
  yk_device_ops ops; /* first: the device's table points here */
  const yk_device_ops *inner;
  /* Called when a linear layer is created. */
  yk_status (*on_create)(void *user, const yk_linear_spec *spec, const yk_linear *linear, yk_err *err);
  /* Called before a linear layer's forward runs; layers of a mixture have no separate forward. */
  yk_status (*on_forward)(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
  /* Called once the operation is on the device's stream: work queued after it can read the rows, args->taps and the
   * cache. */
  yk_status (*on_mixture)(void *user, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err);
  yk_status (*on_latent)(void *user, const yk_latent_attention_args *args, yk_err *err);
  void *user;
} yk_observer;

/* yk_observer_attach - observer holds the functions and user; it must outlive the device or be detached. */
void yk_observer_attach(yk_observer *observer, yk_device *dev);
void yk_observer_detach(const yk_observer *observer, yk_device *dev);

#endif
