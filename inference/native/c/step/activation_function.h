/* The activation functions of a gated MLP. */
#ifndef ACTIVATION_FUNCTION_H
#define ACTIVATION_FUNCTION_H

/* gate (count,) = activation(gate) × up, in place. activation: enum Activation of step.h. */
void activate(int activation, float *gate, const float *up, int count);

#endif
