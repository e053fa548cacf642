/* observer.h - a device that shows the rows which linear layers read to someone else, and is otherwise what it was.
 *
 * A device is a table of operations, so that a table with one other entry sees what every layer of every kind of model
 * reads: no model knows of it. */
#ifndef YK_QUANTIZE_OBSERVER_H
#define YK_QUANTIZE_OBSERVER_H

#include "kernels/device.h"

typedef struct yk_observer {
  yk_device_ops ops; /* first: what the device's table points to */
  const yk_device_ops *inner;
  /* Called when a layer is made and before it runs. */
  yk_status (*on_create)(void *user, const yk_linear_spec *spec, const yk_linear *linear, yk_err *err);
  yk_status (*on_forward)(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
  void *user;
} yk_observer;

/* yk_observer_attach - observer holds the two functions and user; it must outlive the device, or be detached. */
void yk_observer_attach(yk_observer *observer, yk_device *dev);
void yk_observer_detach(const yk_observer *observer, yk_device *dev);

#endif
