/* Products of rows with matrices, shared among threads in tiles: some panels of a matrix × a block of rows. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "step/run.h"

/* The division of a matrix into ranges of panels, and of rows into blocks. */
typedef struct Tiling {
    int panels, width;      /* panels of the matrix, and of a range at most */
    int rows, blocks;
    int num_tasks;          /* ranges × blocks */
} Tiling;

/* Rows [first, end) by panels [panel, panels). */
typedef struct Tile {
    int block;
    int first, end;
    int panel, panels;
} Tile;

/* The panels of a range are a multiple of `multiple`. */
Tiling tiling_of(const Run *run, const Matrix *matrix, int rows, int multiple);

/* The tile of a task. Consecutive tasks share a range, so that its weights are still cached for all blocks. */
Tile tile_of(const Run *run, const Tiling *tiling, int task);

/* The task that computes the product of a tile. `next`: see GemmTask. */
GemmTask task_of(const Matrix *matrix, const Inputs *rows, const Tile *tile, float *out, int stride, const void *next);

typedef struct Product {
    const Matrix *matrix;
    const Activations *rows;
    float *out;
    int wide;               /* floats from one row of out to the next */
    int delta;              /* number of LayerDeltas; those of a phase follow each other */
} Product;

/* Called with rows [first, end) when all products of these rows are computed. */
typedef void Finish(const Run *run, int layer, int first, int end);

/* A phase of the team: multiply rows [0, rows) with each of `count` matrices. Ends when all threads are done. */
void products(const Run *run, Team *team, const Product *product, int count, int rows, Finish *finish, int layer);

#endif
