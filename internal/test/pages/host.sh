# The way into a page's host: bash host.sh DIR NAME DIBS NET SHARED, in new namespaces. It runs DIR/page.sh there.
set -eu
dir=$1 name=$2 dibs=$3 net=$4 shared=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$dir/layer"
mkdir "$dir/layer/up" "$dir/layer/work" "$dir/layer/root"
root=$dir/layer/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/layer/up,workdir=$dir/layer/work" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
# What pages write lies in memory of its own: the layer stands over a root in which other tests write at the same time,
# and a kernel promises nothing for files of a layer whose ground moves. Seen: one that was there, and then was not.
mkdir -p "$root/home/page"
for path in /run /tmp /var/spool/cron /etc/cron.d /var/tmp /home/page; do
	[ ! -d "$root$path" ] || mount -t tmpfs tmpfs "$root$path"
done
chmod 1777 "$root/tmp"
chmod 755 "$root/etc/cron.d" 2>/dev/null || true
mkdir -p "$root/var/spool/cron/crontabs" "$root/page" "$root/shared" "$root/usr/local/bin" "$root/srv/app"
mount --bind "$dir/page" "$root/page"
mount --bind "$shared" "$root/shared"
# Nothing of this machine's own configuration of dibs or cron is in the page's host.
rm -rf "$root/etc/dibs" "$root/var/lib/dibs" "$root/etc/crontab"
install -m 755 "$dibs" "$root/usr/local/bin/dibs-itself"
install -m 755 "$root/page/dibs" "$root/usr/local/bin/dibs"
install -m 755 "$root/page/php" "$root/usr/local/bin/php"
cp -r "$(dirname "$0")/../../../examples" "$root/home/page/examples"
mkdir -p "$root/usr/sbin"
install -m 755 "$root/page/sendmail" "$root/usr/sbin/sendmail"
hostname "$name"
[ "$net" = shared ] || ip link set lo up
exec chroot "$root" /usr/bin/env -i HOME=/home/page PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	bash --noprofile --norc -eu /page/page.sh
