/* observer.h - a device that shows what the layers of a model read to someone else, and is otherwise what it was.
 *
 * A device is a table of operations, so that a table with some other entries sees what every layer of every kind of
 * model reads: no model knows of it. */
#ifndef YK_QUANTIZE_OBSERVER_H
#define YK_QUANTIZE_OBSERVER_H

#include "kernels/device.h"

typedef struct yk_observer {
  yk_device_ops ops; /* first: what the device's table points to */
  const yk_device_ops *inner;
  /* Called when a linear layer is made. */
  yk_status (*on_create)(void *user, const yk_linear_spec *spec, const yk_linear *linear, yk_err *err);
  /* Called before a linear layer's forward runs; layers of a mixture have none of their own. */
  yk_status (*on_forward)(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
  /* Called once the operation is on the device's stream: the rows, args->taps and the cache can be read behind it. */
  yk_status (*on_mixture)(void *user, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err);
  yk_status (*on_latent)(void *user, const yk_latent_attention_args *args, yk_err *err);
  void *user;
} yk_observer;

/* yk_observer_attach - observer holds the functions and user; it must outlive the device, or be detached. */
void yk_observer_attach(yk_observer *observer, yk_device *dev);
void yk_observer_detach(const yk_observer *observer, yk_device *dev);

#endif
