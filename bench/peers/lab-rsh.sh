#!/bin/sh
# The remote shell of mpirun inside a lab: lab-rsh.sh [options] HOST COMMAND...
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
exec "$R2CCL" lab run "$host" sh -c "$*"
