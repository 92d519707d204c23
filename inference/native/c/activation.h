/* What an MLP makes of its gate. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

/* gate (count,) = activation(gate) × up, in place. activation: of step.h. */
void activate(int activation, float *gate, const float *up, int count);

#endif
