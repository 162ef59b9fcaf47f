# One process of Headrace with the surroundings in its folder: start.sh FOLDER MODULE [ARGUMENT …]
set -eu
folder=$1
module=$2
shift 2
set -a
. "$folder/env"
set +a
exec python -m "headrace.$module" "$@"
